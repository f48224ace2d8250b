package manifests

import (
	"encoding/json"
	"testing"
)

// pod is what the tests look at of a pod's template.
type pod struct {
	Metadata struct{ Labels map[string]string }
	Spec     struct {
		TerminationGracePeriodSeconds int
		ServiceAccountName            string
		AutomountServiceAccountToken  *bool
		Containers                    []container
		Volumes                       []volume
	}
}

type container struct {
	Name, Image string
	Args        []string
	Command     []string
	Ports       []struct {
		Name          string
		ContainerPort int
	}
	Lifecycle struct {
		PreStop struct{ Sleep struct{ Seconds int } }
	}
	ReadinessProbe, LivenessProbe probe
	VolumeMounts                  []struct{ Name, MountPath, SubPath string }
	SecurityContext               struct{ ReadOnlyRootFilesystem bool }
}

type probe struct {
	HTTPGet                                         struct{ Path, Port string }
	PeriodSeconds, TimeoutSeconds, FailureThreshold int
}

type volume struct {
	Name      string
	ConfigMap *struct{ Name string }
	Secret    *struct{ SecretName string }
	EmptyDir  *json.RawMessage
}

// podOf is the template of the one Deployment.
func podOf(t *testing.T, all objects) *pod {
	t.Helper()
	var spec struct{ Template pod }
	all.only(t, "Deployment").spec(t, &spec)
	return &spec.Template
}

// gateway is the container of the gateway.
func (p *pod) gateway(t *testing.T) *container {
	t.Helper()
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == "e2b-gateway" {
			return &p.Spec.Containers[i]
		}
	}
	t.Fatal("there is no container e2b-gateway")
	return nil
}

// port is the number of a port that has a name in any container.
func (p *pod) port(name string) int {
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == name {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// from is the name of the ConfigMap or Secret that is mounted at a path.
func (p *pod) from(t *testing.T, c *container, path string) string {
	t.Helper()
	for _, m := range c.VolumeMounts {
		if m.MountPath != path {
			continue
		}
		if m.SubPath != "" {
			t.Errorf("%s is mounted by subPath, which Kubernetes never brings up to date", path)
		}
		for _, v := range p.Spec.Volumes {
			switch {
			case v.Name != m.Name:
			case v.ConfigMap != nil:
				return "ConfigMap/" + v.ConfigMap.Name
			case v.Secret != nil:
				return "Secret/" + v.Secret.SecretName
			}
		}
	}
	t.Fatalf("nothing is mounted at %s", path)
	return ""
}
