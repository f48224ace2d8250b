package handlers

import (
	"reflect"
	"testing"
)

// Of ten thousand streams each has one. Go's next size of memory is 896 bytes.
func TestACallIsAsSmallAsAStreamNeedsIt(t *testing.T) {
	if size := reflect.TypeFor[dataCall]().Size(); size > 768 {
		t.Errorf("%d bytes", size)
	}
}
