// Package metrics checks what operators get to see of the gateway's metrics: that the
// documentation has all of them, and that the alert rules and the dashboard in deploy/
// work with a real Prometheus and what a real gateway tells it.
package metrics
