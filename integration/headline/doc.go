// Package headline proves the sentence that this project exists for: however a sandbox dies under a streamed command, the
// program that waits for it is told so in its SDK's own words, and is told the truth.
//
// Thousands of commands are run by real, unmodified E2B SDKs through the real binary, over TLS with HTTP/1.1 and with HTTP/2,
// while the ROCK double kills them in every way it can. What was killed, where, and whether the process had ended by then is
// known here byte by byte, so for each command the right outcomes are known too. The same plan, a tenth as long, is run
// against the same binary as a plain reverse_proxy, so that the table shows what would have happened otherwise.
//
// The programs in py/ and js/ only do what they are told and print what they saw; all judging is done here. Nothing may know
// how the gateway works inside.
package headline
