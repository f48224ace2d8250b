package client

import "os"

// Deployment is a running gateway with something behind it, as a user of an SDK sees it.
type Deployment struct {
	// APIURL and SandboxURL are the values of E2B_API_URL and E2B_SANDBOX_URL.
	APIURL, SandboxURL string
	// Domain is the value of E2B_DOMAIN, which stands for both URLs: programs are given these or that.
	Domain string
	// APIKey has the SDK's key format, "e2b_" and lower-case hexadecimal digits.
	APIKey     string
	TemplateID string
	// CAFile is a PEM file with the CA to trust; empty for cleartext.
	CAFile string
}

// environment is what the program knows of the deployment, and of this machine no more than it needs: a proxy or CA
// variable of the caller must not decide a test.
func (d Deployment) environment() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + os.Getenv("HOME"),
		"LANG=C.UTF-8",
		"PYTHONUNBUFFERED=1",
		"PYTHONDONTWRITEBYTECODE=1",
		"E2B_API_KEY=" + d.APIKey,
		"E2B_TEMPLATE_ID=" + d.TemplateID,
	}
	if d.Domain != "" {
		env = append(env, "E2B_DOMAIN="+d.Domain)
	} else {
		env = append(env, "E2B_API_URL="+d.APIURL, "E2B_SANDBOX_URL="+d.SandboxURL)
	}
	if d.CAFile != "" {
		env = append(env, "SSL_CERT_FILE="+d.CAFile, "NODE_EXTRA_CA_CERTS="+d.CAFile)
	}
	return env
}
