package module

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-e2b/gateway/auth"
)

// auditLog is the name of the logger that has a line for whatever operators change.
const auditLog = "admin.api." + name

// carryOut makes a change, writes it down, whether it succeeds or not, and answers.
func (a *Admin) carryOut(route *AdminRoute, w http.ResponseWriter, r *http.Request) error {
	result, err := route.change(a, r)
	line := []zap.Field{
		zap.String("action", route.Method+" "+route.Path),
		zap.String("uri", auth.RedactURI(r.URL.RequestURI())),
		zap.String("remote", r.RemoteAddr),
	}
	if who := identity(r); who != "" {
		line = append(line, zap.String("identity", who))
	}
	log := caddy.Log().Named(auditLog)
	if err != nil {
		log.Warn("an operator's change was refused", append(line, zap.Error(err))...)
		return err
	}
	log.Info("an operator has made a change", append(line, zap.Any("result", result))...)
	return answerJSON(w, http.StatusOK, result)
}

// identity is who has shown a client certificate to the remote admin endpoint, "" for
// everybody else: Caddy's local endpoint knows nobody.
func identity(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return ""
	}
	certificate := r.TLS.PeerCertificates[0]
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return certificate.Subject.String() + " (public key SHA-256 " + hex.EncodeToString(sum[:]) + ")"
}

// notFound is the error for what is not there.
func notFound(text string) error {
	return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errors.New(text)}
}
