// Package deploy tests what operators do to a gateway that is in use: they
// reload its config, and they stop it. Streams of real SDKs and thousands of
// plain ones run meanwhile.
package deploy
