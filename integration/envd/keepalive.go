package envd

import (
	"net/http"
	"strconv"
	"time"
)

// defaultKeepalive is how often a quiet stream says that it lives when the client does not ask for more.
const defaultKeepalive = 90 * time.Second

// keepaliveInterval reads Keepalive-Ping-Interval: seconds, fractions allowed. Default: 90 s, also for nonsense.
func keepaliveInterval(header http.Header) time.Duration {
	seconds, err := strconv.ParseFloat(header.Get("Keepalive-Ping-Interval"), 64)
	interval := time.Duration(seconds * float64(time.Second))
	if err != nil || interval < time.Millisecond {
		return defaultKeepalive
	}
	return interval
}
