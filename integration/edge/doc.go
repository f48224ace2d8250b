// Package edge attacks a gateway with bytes that no client library would send,
// and looks at every byte that comes out on the other side.
package edge
