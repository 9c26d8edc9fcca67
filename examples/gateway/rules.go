package main

import (
	_ "embed"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/policy"
)

// cautious is the policy without a file: what writes is asked about, and so is what may.
//
//go:embed cautious.json
var cautious []byte

// rules reads the policy of a file.
func rules(path string, logger *slog.Logger) (*policy.Compiled, error) {
	text := cautious
	if path == "" {
		path = "cautious.json"
	} else {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	parsed, err := policy.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	warnings := parsed.Warnings()
	askAboutLaunched(parsed)
	compiled, err := policy.Compile(parsed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, warning := range warnings {
		logger.Warn("something in the policy is hardly meant", "file", path, "warning", warning)
	}
	return compiled, nil
}

// askAboutLaunched has somebody asked about whatever callers launch, unless it is denied:
// rules about names are meant for servers whose names are not the callers' choice. Without
// lists and rules all is allowed: that has to be said once there is a rule.
func askAboutLaunched(p *policy.Policy) {
	if len(p.Allow) == 0 && len(p.Rules) == 0 {
		p.Rules = append(p.Rules, policy.Rule{Name: "all else", Effect: policy.Allow})
	}
	launched := policy.Match{Servers: []string{gateway.Launched + "*"}}
	p.Rules = append(p.Rules, policy.Rule{Name: "launched", Effect: policy.Ask, Match: launched})
}

// trusted says whose word is taken for what their tools do.
func trusted(aliases string) func(alias string) bool {
	list := strings.Split(aliases, ",")
	return func(alias string) bool { return aliases == "*" || slices.Contains(list, alias) }
}
