// Package chaos rehearses the worst day: gateways of the real binary, real Redis servers, the ROCK double and a crowd of clients, while
// everything around the gateways is killed, stopped, slowed, cut and changed. What must hold whatever happens is checked on every
// request: see judge_test.go.
//
// A seed decides the world (registry, mode, transport, number of gateways), the plan of faults and what each client asks for, one after
// the other: the same seed always gives the same plan. It does not decide what the scheduler, the kernel and the network make of it, so
// a seed that failed once may have to be replayed a few times. Worlds that are expensive to build are shared by their seeds, each of
// which begins when everything is healed and the one before has left nothing behind.
//
//	go test ./integration/chaos                          a few seeds in each cheap world
//	make chaos                                           1,000 seeds in all worlds
//	make chaos ARGS='-seeds 50 -from 7'                  fifty of them
//	make chaos ARGS='-seed 123'                          one, with its plan printed
//
// It knows the gateway from outside only: no package of the product is asked what it thinks has happened.
package chaos
