// Package scale tells what a deployment costs its Redis as it grows: sixteen gateways, as far as they talk to Redis, with
// connections of their own to one real server. Each step of it has an exact number of commands, which `make test` holds
// at a small size, and `make scale` measures the rest at a larger one: bytes, and time on processors, of Redis and of the
// gateways. The table goes into docs/scaling.md, whose plan is made of it.
package scale
