package module

import (
	"encoding/base64"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	e2bcaddyfile "github.com/caddy-e2b/gateway/caddyfile"
)

func TestTheSampleKeyOfRockIsWarnedOf(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	encode := base64.StdEncoding.EncodeToString
	secret := encode([]byte(strings.Repeat("k", 32)))
	a := &App{logger: zap.New(core)}
	a.Clusters = []*e2bcaddyfile.ClusterConfig{
		{Name: "sample", AESKey: encode(make([]byte, 32))}, {Name: "good", AESKey: secret}, {Name: "none"},
	}
	a.warnOfSampleKeys()
	if logs.Len() != 1 || logs.All()[0].ContextMap()["cluster"] != "sample" || strings.Contains(logs.All()[0].Message, secret) {
		t.Errorf("%v", logs.All())
	}
}

func TestAClustersKeyOpensItsRecords(t *testing.T) {
	if keyOf, err := rockKeys(""); keyOf != nil || err != nil {
		t.Errorf("without a key: %v", err)
	}
	if _, err := rockKeys("AAAA"); err == nil {
		t.Error("half a key is taken")
	}
	keyOf, err := rockKeys(base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := keyOf("AAAA"); ok {
		t.Error("anything is opened")
	}
}
