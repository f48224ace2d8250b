// Package manifests holds what deploy/ ships to those who will read it: the manifests to Kubernetes' own types and Kustomize, the unit
// to systemd, the container file to BuildKit, each Caddyfile to the real binary, and all of them to one another: ports, probes, files,
// names and times.
//
// No cluster and no container runtime takes part. What runs is the gateway, with the Caddyfiles as they are shipped.
package manifests
