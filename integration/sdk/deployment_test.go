package sdk

// Deployment is a running gateway with something behind it, as a user of an SDK sees it.
type Deployment struct {
	// APIURL and SandboxURL are the values of E2B_API_URL and E2B_SANDBOX_URL.
	APIURL, SandboxURL string
	// APIKey has the SDK's key format, "e2b_" and lower-case hexadecimal digits.
	APIKey     string
	TemplateID string
	// CAFile is a PEM file with the CA to trust; empty for cleartext.
	CAFile string
	// Protocols counts the requests that arrived so far by protocol: "HTTP/1.1" or "HTTP/2.0".
	Protocols func() map[string]int
}
