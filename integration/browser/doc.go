// Package browser opens real web pages in a headless Chromium: a page of another origin that reads and writes files by the URLs of the
// SDKs, calls a sandbox with its access token, and talks to servers in it, and the page that somebody sees at the host of a sandbox that is
// gone.
package browser
