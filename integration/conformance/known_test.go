package conformance

// envdTranslates are the cases of envd's port that end otherwise, because the gateway answers E2B's SDKs there, as envd does. The
// code of a failure stays, and the text and the details are replaced.
var envdTranslates = []difference{
	{
		`^(Errors/HTTPVersion:\d/Protocol:PROTOCOL_CONNECT|Connect to HTTP Code Mapping/HTTPVersion:\d)/.*/unary/canceled$`,
		"Connect's status for it is 499, which Python's http.HTTPStatus does not have: the SDK raises a bare ValueError for it",
	},
	{
		`^(Errors/HTTPVersion:\d/Protocol:PROTOCOL_CONNECT|Connect to HTTP Code Mapping/HTTPVersion:\d)/.*/unary/` +
			`(data-loss|deadline-exceeded|internal|unavailable|unicode-error-message|unimplemented|unknown)$`,
		"the suite puts the headers of the request into the details, with the address of the gateway, and a failure of the server's that " +
			"names an address of the deployment does not leave it",
	},
	{`^Duplicate Metadata/HTTPVersion:\d/Protocol:PROTOCOL_CONNECT/.*/unary/error$`, "the same"},
	{
		`^Errors/HTTPVersion:\d/Protocol:PROTOCOL_CONNECT/.*/Compression:COMPRESSION_IDENTITY/.*/(` +
			`bidi-stream/half-duplex/error-with-no-responses|client-stream/error-(multiple-requests|one-request)|server-stream/` +
			`(aborted|canceled|data-loss|deadline-exceeded|error-with-no-responses|internal|resource-exhausted|unavailable|unknown))$`,
		"the same, in the last envelope of a stream; one that is compressed is not read",
	},
	{
		`^Duplicate Metadata/HTTPVersion:\d/Protocol:PROTOCOL_CONNECT/.*/Compression:COMPRESSION_IDENTITY/.*/` +
			`(bidi-stream/half-duplex/error-with-no-responses|client-stream/error|server-stream/error-with-no-responses)$`,
		"the same",
	},
	{`^Connect to HTTP Code Mapping/.*/Compression:COMPRESSION_IDENTITY/.*/bidi-stream/half-duplex/stream-error-returns-success-http-code$`, "the same"},
}
