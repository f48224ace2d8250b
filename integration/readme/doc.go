// Package readme holds the README to the code: every option, every text that a
// client can be told, every line that is to be typed. Whoever adds one without
// a word for those who need it is told so here.
package readme
