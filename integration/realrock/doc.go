// Package realrock runs the gateway's binary in front of the real ROCK, as it is published on PyPI: admin role, proxy role,
// the rocklets and Ray, on a Redis with JSON commands. Every record that the gateway reads there was written by ROCK's own
// code, and every port that it reaches by the real rocklet's port-forward. docs/rock.md says what of ROCK runs, and what not.
//
// The one double is the docker client on ROCK's PATH, in docker/. Its containers are networks of their own with the real
// rocklet in them.
//
// ROCK and what it imports take a gigabyte and minutes to install, so none of this is part of `make test`: the tests have
// the build tag realrock and are run by `make rock`.
package realrock
