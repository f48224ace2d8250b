// Package capability makes every call of the real E2B SDKs once, against ROCK alone and against ROCK behind the gateway, and holds what
// became of each against testdata: it works, or it raises this class with this text. The tables of docs/compatibility.md are made from
// testdata, so they say what the last run saw.
//
//	go test ./integration/capability            runs everything and compares
//	go test ./integration/capability -update    writes testdata and the tables of docs/compatibility.md anew; read the difference before you keep it
//
// What is written there cannot get worse unseen: what must work behind the gateway, and that everything else raises an exception of the
// SDK's own, is stated in promises_test.go and not in testdata.
package capability
