package rock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"
)

// badInput is a message in the words of ROCK's validation.
type badInput string

func (e badInput) Error() string { return string(e) }

// createRequest is a valid body of POST /sandboxes.
type createRequest struct {
	templateID string
	timeout    int64 // seconds, > 0
	metadata   map[string]string
	env        map[string]string
}

// ignored fields are accepted for the SDK's sake and checked for their type only.
var ignored = map[string]func(json.RawMessage) bool{
	"secure":                isBool,
	"allow_internet_access": isBool,
	"autoPause":             isBool,
	"autoResume": func(raw json.RawMessage) bool {
		var v struct {
			Enabled *bool `json:"enabled"`
		}
		return json.Unmarshal(raw, &v) == nil
	},
}

func isBool(raw json.RawMessage) bool {
	var b *bool
	return json.Unmarshal(raw, &b) == nil
}

// parseCreate is ROCK's strict model: unknown fields are forbidden, templateID, timeout and metadata are required, timeout is an integer.
func parseCreate(body []byte) (createRequest, error) {
	fields, err := object(body)
	if err != nil {
		return createRequest{}, err
	}
	req := createRequest{env: map[string]string{}}
	for _, name := range []string{"templateID", "timeout", "metadata"} {
		if _, ok := fields[name]; !ok {
			return createRequest{}, fmt.Errorf("%s: Field required", name)
		}
	}
	for _, name := range sortedKeys(fields) {
		raw := fields[name]
		switch name {
		case "templateID":
			if json.Unmarshal(raw, &req.templateID) != nil || strings.TrimSpace(req.templateID) == "" {
				err = badInput("templateID: Input should be a non-blank string")
			}
		case "timeout":
			if req.timeout, err = strictInt(raw); err == nil && (req.timeout <= 0 || req.timeout > math.MaxInt32) {
				err = badInput("Input should be between 1 and 2147483647")
			}
			if err != nil {
				err = fmt.Errorf("timeout: %w", err)
			}
		case "metadata":
			req.metadata, err = stringMap(name, raw)
		case "envVars":
			if string(raw) != "null" {
				req.env, err = stringMap(name, raw)
			}
		default:
			valid, known := ignored[name]
			if !known {
				err = fmt.Errorf("%s: Extra inputs are not permitted", name)
			} else if !valid(raw) {
				err = fmt.Errorf("%s: Input has the wrong type", name)
			}
		}
		if err != nil {
			return createRequest{}, err
		}
	}
	return req, nil
}

// parseTimeout reads the body of POST /sandboxes/{id}/timeout: one strict integer from 0 to the largest int32.
func parseTimeout(body []byte) (int64, error) {
	fields, err := object(body)
	if err != nil {
		return 0, err
	}
	raw, ok := fields["timeout"]
	if !ok {
		return 0, badInput("timeout: Field required")
	}
	if len(fields) > 1 {
		return 0, badInput("Extra inputs are not permitted")
	}
	n, err := strictInt(raw)
	if err != nil {
		return 0, fmt.Errorf("timeout: %w", err)
	}
	if n < 0 || n > math.MaxInt32 {
		return 0, badInput("timeout: Input should be between 0 and 2147483647")
	}
	return n, nil
}

func object(body []byte) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&fields); err != nil || fields == nil {
		return nil, badInput("body: Input should be a valid JSON object")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, badInput("body: Input should be a valid JSON object")
	}
	return fields, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// strictInt refuses true, "5" and 5.0, as pydantic's strict mode does.
func strictInt(raw json.RawMessage) (int64, error) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0, badInput("Input should be a valid integer")
	}
	return n, nil
}

// stringMap refuses null values, which Go's decoder would read as "".
func stringMap(name string, raw json.RawMessage) (map[string]string, error) {
	var m map[string]*string
	if json.Unmarshal(raw, &m) != nil || m == nil {
		return nil, fmt.Errorf("%s: Input should be a map of strings", name)
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		if v == nil {
			return nil, fmt.Errorf("%s.%s: Input should be a valid string", name, k)
		}
		out[k] = *v
	}
	return out, nil
}

// coldStart applies the resource fields of metadata, which count only when no ready template is found.
func coldStart(metadata map[string]string, s *Sandbox, wait *time.Duration) error {
	for _, f := range []struct {
		name string
		into *int
	}{{"cpuCount", &s.CPUs}, {"memoryMB", &s.MemoryMB}} {
		v, ok := metadata[f.name]
		if !ok {
			continue
		}
		n, err := strconv.Atoi(v)
		if err != nil || n <= 0 {
			return fmt.Errorf("metadata.%s must be a positive integer", f.name)
		}
		*f.into = n
	}
	if v, ok := metadata["startup_timeout"]; ok {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || n <= 0 || math.IsInf(n, 0) || math.IsNaN(n) {
			return badInput("metadata.startup_timeout must be a positive finite number")
		}
		*wait = time.Duration(min(n, 1e9) * float64(time.Second))
	}
	return nil
}
