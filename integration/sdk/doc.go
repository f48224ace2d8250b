// Package sdk runs the real, unmodified E2B SDKs against a deployment and reports what they saw as Go subtests.
//
// The programs in py/ and js/ are what a user would write; each prints one JSON line per check. The tests start them
// with every SDK generation that is supported, over every transport, and turn the lines into subtests. The SDKs are
// pinned by the lock files beside the programs and live under .cache/ of the checkout, where integration/tools/install.sh
// puts them (make deps).
//
// Nothing here may know how the gateway works inside: a deployment is five strings and a count of requests by protocol.
package sdk
