package envd

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// metadataHeader starts the request headers that carry a file's metadata: X-Metadata-Color: red.
	metadataHeader = "X-Metadata-"
	// metadataAttribute starts the names of the extended attributes that keep it.
	metadataAttribute = "user.e2b."
)

// metadataOf collects a request's file metadata; keys in lower case.
func metadataOf(header http.Header) map[string]string {
	var metadata map[string]string
	for name, values := range header {
		key, ok := strings.CutPrefix(name, metadataHeader)
		if !ok || key == "" {
			continue
		}
		if metadata == nil {
			metadata = make(map[string]string)
		}
		metadata[strings.ToLower(key)] = values[0]
	}
	return metadata
}

// writeMetadata keeps metadata with the file at a path of the machine.
func writeMetadata(host string, metadata map[string]string) error {
	for key, value := range metadata {
		if err := unix.Setxattr(host, metadataAttribute+key, []byte(value), 0); err != nil {
			return fmt.Errorf("metadata %q: %w", key, err)
		}
	}
	return nil
}

// readMetadata is best effort: a file system without extended attributes has no metadata.
func readMetadata(host string) map[string]string {
	size, err := unix.Llistxattr(host, nil)
	if err != nil || size == 0 {
		return nil
	}
	names := make([]byte, size)
	if size, err = unix.Llistxattr(host, names); err != nil {
		return nil
	}
	var metadata map[string]string
	for name := range bytes.SplitSeq(names[:size], []byte{0}) {
		key, ok := strings.CutPrefix(string(name), metadataAttribute)
		if !ok {
			continue
		}
		value := make([]byte, 64<<10) // the largest value Linux allows
		n, err := unix.Lgetxattr(host, string(name), value)
		if err != nil {
			continue
		}
		if metadata == nil {
			metadata = make(map[string]string)
		}
		metadata[key] = string(value[:n])
	}
	return metadata
}
