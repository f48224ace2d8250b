package protocol

import (
	"net/http"
	"testing"
)

func TestAnRPCIsKnownByItsContentType(t *testing.T) {
	for contentType, want := range map[string]Protocol{
		"application/connect+json":                ConnectStream,
		"application/connect+proto":               ConnectStream,
		"Application/Connect+JSON; charset=utf-8": ConnectStream,
		"application/json":                        ConnectUnary,
		"application/proto":                       ConnectUnary,
		"":                                        ConnectUnary,
		"text/html":                               ConnectUnary,
		"application/grpc":                        GRPC,
		"application/grpc+proto":                  GRPC,
		"application/grpc-web":                    GRPCWeb,
		"application/grpc-web+json":               GRPCWeb,
		"application/grpc-web-text":               GRPCWebText,
		"application/grpc-web-text+proto":         GRPCWebText,
		"application/grpcx":                       ConnectUnary,
	} {
		r := &http.Request{Header: http.Header{"Content-Type": {contentType}}}
		if got := OfRPC(r); got != want {
			t.Errorf("%q is %v, want %v", contentType, got, want)
		}
	}
}

func TestAPageIsOnlyForAGetOfABrowser(t *testing.T) {
	browser := http.Header{"Accept": {"text/html"}, "Sec-Fetch-Mode": {"navigate"}}
	for method, want := range map[string]Protocol{"GET": Page, "HEAD": Page, "POST": Plain, "OPTIONS": Plain} {
		if got := OfPage(&http.Request{Method: method, Header: browser}); got != want {
			t.Errorf("%s is %v, want %v", method, got, want)
		}
	}
}
