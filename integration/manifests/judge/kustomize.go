package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/pod-security-admission/api"
	security "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomize renders a directory and judges each object.
func kustomize(directory string) error {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), directory)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apps.AddToScheme, autoscaling.AddToScheme, core.AddToScheme, networking.AddToScheme, policy.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var faults []error
	for _, resource := range rendered.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			return err
		}
		object, kind, err := decoder.Decode(text, nil, nil)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", resource.CurId(), err))
			continue
		}
		if d, ok := object.(*apps.Deployment); ok {
			faults = append(faults, secure(&d.Spec.Template)...)
		}
		object.GetObjectKind().SetGroupVersionKind(*kind)
		if err := json.NewEncoder(os.Stdout).Encode(object); err != nil {
			return err
		}
	}
	return errors.Join(faults...)
}

// secure holds a pod to the strictest of the Pod Security Standards.
func secure(pod *core.PodTemplateSpec) (faults []error) {
	evaluator, err := security.NewEvaluator(security.DefaultChecks(), nil)
	if err != nil {
		return []error{err}
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
		if !result.Allowed {
			faults = append(faults, fmt.Errorf("not restricted: %s: %s", result.ForbiddenReason, result.ForbiddenDetail))
		}
	}
	return faults
}
