// Package incidents brings a real gateway, with a real Redis and the ROCK
// double, into its incidents under traffic, and finds out which one it is as an
// operator would: by the recipes of docs/operations.md, from nothing but the
// metrics, the log, explain and doctor.
//
// The recipes are one table, in recipes_test.go. The tests try every recipe on
// every incident, and on a healthy gateway: it must hold for its own and for no
// other. The page is written from the same table:
//
//	go test ./integration/incidents -run TestThePage -update
package incidents
