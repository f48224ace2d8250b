// Package documented finds what operators can meet and nobody has written about:
// it asks the real binary which commands and flags it has, a running gateway which
// routes its admin endpoint answers, what it logs and what it measures, and looks
// each of them up in the pages.
//
// What it does not do is done beside the thing itself: options are checked in
// integration/reference and integration/readme, texts of errors in
// integration/readme, findings of the doctor in integration/doctor, calls of SDKs in
// integration/capability.
package documented
