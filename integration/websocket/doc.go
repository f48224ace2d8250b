// Package websocket opens WebSockets through the real binary of the gateway, over HTTP/1.1
// and over HTTP/2, to a sandbox of which a test writes every byte.
package websocket
