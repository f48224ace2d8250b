package conformance

// What the suite may say of such a case: the details are not there, and the text is the gateway's. Nothing else: of a wrong code it
// would speak in a line of its own.
const (
	noDetails   = `actual error contain 0 details; expecting 1`
	anotherText = `actual error \{code: \d+ \(\w+\), message: "The answer for sandbox \w+ could not be understood; ` +
		`the outcome of this call is unknown"\} does not match expected message ".*"`
	noTrailers = `actual response trailers missing "x-custom-trailer"`
	noHeaders  = `actual response headers missing "x-custom-header"`
	// internal is the code of what is 499 in Connect, and its status.
	internal = `actual error \{code: 13 \(internal\), message: "The answer for sandbox \w+ could not be understood; ` +
		`the outcome of this call is unknown"\} does not match expected code 1 \(canceled\)|` +
		`actual HTTP status code does not match: wanted 499; got 500`
)

// envdTranslates are the cases of envd's port that end otherwise, because the gateway answers E2B's SDKs there, as envd does. The
// code of a failure stays, and the text and the details are replaced, with the headers and trailers that belong to them.
var envdTranslates = []difference{
	{
		`^(Errors/HTTPVersion:\d/Protocol:PROTOCOL_CONNECT|Connect to HTTP Code Mapping/HTTPVersion:\d)/.*/unary/canceled$`,
		internal + "|" + noDetails + "|" + anotherText,
		"Connect's status for it is 499, which Python's http.HTTPStatus does not have: the SDK raises a bare ValueError for it",
	},
	{
		`^(Errors/HTTPVersion:\d/Protocol:PROTOCOL_CONNECT|Connect to HTTP Code Mapping/HTTPVersion:\d)/.*/unary/` +
			`(data-loss|deadline-exceeded|internal|unavailable|unicode-error-message|unimplemented|unknown)$`,
		noDetails + "|" + anotherText,
		"the suite puts the headers of the request into the details, with the address of the gateway, and a failure of the server's that " +
			"names an address of the deployment does not leave it",
	},
	{
		`^Duplicate Metadata/HTTPVersion:\d/Protocol:PROTOCOL_CONNECT/.*/unary/error$`,
		noDetails + "|" + anotherText + "|" + noHeaders + "|" + noTrailers,
		"the same",
	},
	{
		`^Errors/HTTPVersion:\d/Protocol:PROTOCOL_CONNECT/.*/Compression:COMPRESSION_IDENTITY/.*/(` +
			`client-stream/error-(multiple-requests|one-request)|server-stream/` +
			`(aborted|canceled|data-loss|deadline-exceeded|internal|resource-exhausted|unavailable|unknown))$`,
		noDetails + "|" + anotherText,
		"the same, in the last envelope of a stream; one that is compressed is not read",
	},
	{
		`^Errors/HTTPVersion:\d/Protocol:PROTOCOL_CONNECT/.*/Compression:COMPRESSION_IDENTITY/.*/` +
			`(bidi-stream/half-duplex|server-stream)/error-with-no-responses$`,
		noDetails + "|" + anotherText + "|" + noTrailers,
		"the same",
	},
	{
		`^Duplicate Metadata/HTTPVersion:\d/Protocol:PROTOCOL_CONNECT/.*/Compression:COMPRESSION_IDENTITY/.*/` +
			`(bidi-stream/half-duplex/error-with-no-responses|client-stream/error|server-stream/error-with-no-responses)$`,
		noDetails + "|" + anotherText + "|" + noTrailers,
		"the same",
	},
	{`^Connect to HTTP Code Mapping/.*/Compression:COMPRESSION_IDENTITY/.*/bidi-stream/half-duplex/stream-error-returns-success-http-code$`, noDetails, "the same"},
}
