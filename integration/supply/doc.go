// Package supply holds what the binary is made of to what is written about it:
// the licence of every module that is linked in, the flags a release is built
// with, and the version that it prints.
//
// What needs a network, or compiles everything anew, is in integration/tools/supply.sh:
// known vulnerabilities, the bill of materials, and two builds with the same bytes.
package supply
