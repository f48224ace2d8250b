package rock

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"
)

// zone is ROCK's default time zone, Asia/Shanghai, which has had one offset since 1991.
var zone = time.FixedZone("CST", 8*60*60)

// stamp is ROCK's time format: ISO 8601 with offset, to the second.
func stamp(t time.Time) string { return t.In(zone).Format("2006-01-02T15:04:05-07:00") }

// Transition is one entry of state_history.
type Transition struct {
	From      State  `json:"from_state"`
	To        State  `json:"to_state"`
	Event     string `json:"event"`
	Timestamp string `json:"timestamp"`
}

// Phase is one entry of phases; Status is waiting, running, success, failed or timeout.
type Phase struct {
	Status    string `json:"status"`
	Message   string `json:"message"`
	Started   string `json:"started_at,omitempty"`
	Completed string `json:"completed_at,omitempty"`
}

// document is the alive:<id> record for the sandbox's present state. The caller holds s.mu.
func (s *Sandbox) document() map[string]any {
	doc := map[string]any{
		"sandbox_id": s.ID, "image": s.Image, "metadata": s.Metadata, "env": s.Env,
		"cpus": float64(s.CPUs), "memory": fmt.Sprintf("%.2fg", float64(s.MemoryMB)/1024), "disk": fmt.Sprintf("%dG", s.DiskMB/1024),
		"num_gpus": nil, "accelerator_type": nil,
		"user_id": s.owner.user, "experiment_id": s.owner.experiment, "namespace": s.owner.namespace, "cluster_name": s.owner.cluster,
		"rock_authorization_encrypted": s.owner.sealed, "state": s.state, "create_time": stamp(s.created),
	}
	c := s.cluster
	if c.opt.Backend == OpenSandbox {
		doc["extended_params"] = map[string]string{"backend": "opensandbox", "opensandbox_id": "os-" + s.ID}
	} else if s.submitted {
		doc["host_name"] = "ray-worker-1"
		doc["host_ip"] = s.hostIP
		if c.opt.Backend == Kubernetes {
			doc["host_name"] = s.ID
			doc["extended_params"] = map[string]string{"pool_name": "p1", "k8s_resource_version": "88123"}
			if s.state == Pending {
				doc["host_ip"], doc["port_mapping"], doc["phases"] = "", map[string]int{}, map[string]Phase{}
			}
		}
	}
	if s.phases != nil {
		doc["phases"] = s.phases
	}
	if !s.started.IsZero() { // after a restart these are still of the life before, until the alive event
		if _, told := doc["port_mapping"]; !told && c.opt.Backend != OpenSandbox {
			doc["port_mapping"] = stringKeys(s.ports)
		}
		doc["start_time"] = stamp(s.started)
	}
	if s.state == Running {
		doc["archive_time"], doc["auto_transition_state"], doc["auto_transition_time"] = nil, nil, nil
	}
	if len(s.history) > 0 {
		doc["state_history"] = s.history
	}
	return doc
}

// stringKeys: Python writes integer keys as JSON strings.
func stringKeys(ports map[int]int) map[string]int {
	m := make(map[string]int, len(ports))
	for k, v := range ports {
		m[strconv.Itoa(k)] = v
	}
	return m
}

// publish writes alive:<id>.
func (s *Sandbox) publish() {
	s.mu.Lock()
	doc := s.document()
	s.recorded = true
	s.mu.Unlock()
	s.cluster.record(func(ctx context.Context) error { return s.cluster.opt.Records.Set(ctx, "alive:"+s.ID, doc) })
}

// publishTimeout writes timeout:<id>; both values are strings.
func (s *Sandbox) publishTimeout() {
	s.mu.Lock()
	doc := map[string]string{"auto_clear_time": strconv.Itoa(s.minutes), "expire_time": strconv.FormatInt(s.expire, 10)}
	s.mu.Unlock()
	s.cluster.record(func(ctx context.Context) error { return s.cluster.opt.Records.Set(ctx, "timeout:"+s.ID, doc) })
}

// evict removes both records.
func (s *Sandbox) evict() {
	s.cluster.record(func(ctx context.Context) error {
		err := s.cluster.opt.Records.Del(ctx, "alive:"+s.ID, "timeout:"+s.ID)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.recorded = err != nil
		return err
	})
}

// seal encrypts the caller's authorization as ROCK stores it: base64(nonce[12] || ciphertext || tag[16]), AES-256-GCM.
func seal(key [32]byte, plain string) (string, error) {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return "", fmt.Errorf("rock: seal: %w", err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return "", fmt.Errorf("rock: seal: %w", err)
	}
	nonce := make([]byte, gcm.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return "", fmt.Errorf("rock: seal: %w", err)
	}
	return base64.StdEncoding.EncodeToString(gcm.Seal(nonce, nonce, []byte(plain), nil)), nil
}
