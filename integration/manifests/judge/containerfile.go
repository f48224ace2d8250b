package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// instruction is one line of a stage, as BuildKit reads it.
type instruction struct {
	Stage string `json:"stage"`
	Name  string `json:"name"`
	Text  string `json:"text"`
}

// containerfile reads a container file.
func containerfile(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	tree, err := parser.Parse(f)
	if err != nil {
		return err
	}
	var faults []error
	for _, w := range tree.Warnings {
		faults = append(faults, errors.New(w.Short))
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, text string, at []parser.Range) {
		faults = append(faults, fmt.Errorf("%s at %v: %s", rule, at, text))
	}})
	stages, _, err := instructions.Parse(tree.AST, lint)
	if err != nil {
		return err
	}
	for _, stage := range stages {
		if err := json.NewEncoder(os.Stdout).Encode(instruction{stage.Name, "FROM", stage.SourceCode}); err != nil {
			return err
		}
		for _, c := range stage.Commands {
			text := fmt.Sprint(c)
			if err := json.NewEncoder(os.Stdout).Encode(instruction{stage.Name, c.Name(), text}); err != nil {
				return err
			}
		}
	}
	return errors.Join(faults...)
}
