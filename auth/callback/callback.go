// Package callback is a store of API keys that asks an HTTP server of the
// operator's about each:
//
//	GET <url>/<digest>
//
// The digest is the SHA-256 of the key in lower-case hexadecimal; the key itself
// never leaves the gateway. 200 with an [auth.Record] in JSON is a key, 404 says
// that there is no such key, and everything else, redirects included, that it
// cannot be found out.
package callback

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddy-e2b/gateway/auth"
)

// maxAnswer is the longest answer that is read, in bytes.
const maxAnswer = 64 << 10

// Config says whom to ask.
type Config struct {
	// URL is what the digest is appended to, with a slash between. Required.
	URL string
	// Bearer is sent as Authorization: Bearer. Default: none.
	Bearer string
	// Timeout bounds a question, from dialling to the end of the answer. The
	// memory in front of the store bounds it, too. Default: 900ms.
	Timeout time.Duration
	// TLS is how an https server is verified. Default: by the system's
	// authorities.
	TLS *tls.Config
}

// Store is an [auth.Store] that asks each time.
type Store struct {
	url    string
	bearer string
	secret *strings.Replacer
	client http.Client
}

// CheckURL reports a URL that cannot be asked.
func CheckURL(s string) error {
	// Not quoted: it may hold a password.
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("a URL is http://host[:port]/path or https://…")
	case u.User != nil:
		return errors.New("the URL holds a password; the option bearer is for secrets")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("the URL has a query or a fragment; the digest is appended to its path")
	}
	return nil
}

// New returns a store. It opens no connection.
func New(cfg Config) (*Store, error) {
	if err := CheckURL(cfg.URL); err != nil {
		return nil, err
	}
	if strings.ContainsFunc(cfg.Bearer, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, errors.New("bearer holds a character that is no visible ASCII")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 900 * time.Millisecond
	}
	return &Store{
		url:    strings.TrimSuffix(cfg.URL, "/") + "/",
		bearer: cfg.Bearer,
		secret: redactor(cfg.Bearer),
		client: http.Client{
			Timeout: cfg.Timeout,
			// No proxy of the environment: it would see the bearer secret.
			Transport: &http.Transport{
				TLSClientConfig:        cfg.TLS,
				ForceAttemptHTTP2:      true,
				MaxIdleConnsPerHost:    32,
				IdleConnTimeout:        25 * time.Second,
				MaxResponseHeaderBytes: maxAnswer,
				DisableCompression:     true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close closes all connections.
func (s *Store) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// Lookup implements [auth.Store].
func (s *Store) Lookup(ctx context.Context, digest auth.Digest) (*auth.Key, error) {
	key, err := s.ask(ctx, digest)
	if err != nil && !errors.Is(err, auth.ErrUnknownKey) {
		return nil, fmt.Errorf("%w: %w", auth.ErrUnavailable, err)
	}
	return key, err
}

func (s *Store) ask(ctx context.Context, digest auth.Digest) (*auth.Key, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+digest.String(), nil)
	if err != nil {
		return nil, errors.New("the URL cannot be asked")
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "e2b-gateway")
	if s.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+s.bearer)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		// Without the URL, which url.Error begins with.
		var where *url.Error
		if errors.As(err, &where) {
			err = where.Err
		}
		return nil, redacted{s.secret.Replace(err.Error()), err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusNotFound:
		return nil, auth.ErrUnknownKey
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the server of the keys answered with %d", resp.StatusCode)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the server of the keys answered with more than %d bytes", maxAnswer)
	}
	return parse(body, digest)
}

// redacted is an error without the secret that a server may repeat: net/http
// quotes the first line of an answer that it does not understand.
type redacted struct {
	text  string
	cause error
}

func (e redacted) Error() string        { return e.text }
func (e redacted) Is(target error) bool { return errors.Is(e.cause, target) }

func redactor(secret string) *strings.Replacer {
	if secret == "" {
		return strings.NewReplacer()
	}
	return strings.NewReplacer(secret, "[redacted]")
}

// parse reads an answer. Errors quote nothing that may be secret.
func parse(body []byte, digest auth.Digest) (*auth.Key, error) {
	var record auth.Record
	if err := auth.UnmarshalStrict(body, &record); err != nil {
		return nil, fmt.Errorf("the record of the key cannot be read: %w", err)
	}
	key, err := record.KeyOf(digest)
	if err != nil {
		return nil, fmt.Errorf("the record of the key cannot be read: %w", err)
	}
	return key, nil
}
