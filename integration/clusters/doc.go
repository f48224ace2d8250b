// Package clusters tests lists of sandboxes, and a gateway in front of several clusters, with real SDKs, ROCK's double and
// real Redis servers.
package clusters
