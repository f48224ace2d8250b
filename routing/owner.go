package routing

import (
	"encoding/hex"
	"strings"
)

// Metadata is the owner as it is noted in a sandbox's metadata, under
// [MetadataOwner].
func (o Owner) Metadata() string { return o.Subject + " " + hex.EncodeToString(o.Key[:]) }

// maxSubject is the longest Owner.Subject, in bytes.
const maxSubject = 128

// ParseOwner reads the value of [MetadataOwner]: "<subject> <64 hexadecimal
// digits>". What is anything else was not written by the gateway and is
// nobody's: the zero Owner.
func ParseOwner(value string) Owner {
	subject, digits, _ := strings.Cut(value, " ")
	if subject == "" || len(subject) > maxSubject || len(digits) != hex.EncodedLen(len(Owner{}.Key)) {
		return Owner{}
	}
	for i := 0; i < len(subject); i++ {
		if subject[i] <= ' ' || subject[i] >= 0x7f {
			return Owner{}
		}
	}
	o := Owner{Subject: strings.Clone(subject)} // without the digits behind it
	if _, err := hex.Decode(o.Key[:], []byte(digits)); err != nil {
		return Owner{}
	}
	return o
}
