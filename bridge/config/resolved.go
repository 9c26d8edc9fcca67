package config

import (
	"encoding/json"
	"fmt"
)

// A Resolved is a server whose variables have their values. It may be printed, by
// fmt with any verb, as JSON and by slog: its secrets stay out.
type Resolved struct {
	Alias   string            `json:"alias"`
	Type    Type              `json:"type"`
	Command Secret            `json:"command,omitzero"`
	Args    []Secret          `json:"args,omitempty"`
	Env     map[string]Secret `json:"env,omitempty"` // of PassEnv and the file of variables too
	Dir     Secret            `json:"cwd,omitzero"`
	URL     Secret            `json:"url,omitzero"`
	Headers map[string]Secret `json:"headers,omitempty"`
	Options Options           `json:"options,omitzero"`
	// Unset are the variables that had no value and were left empty or as they stand:
	// "env.TOKEN: ${TOKEN}".
	Unset []string `json:"unset,omitempty"`
}

// Format prints JSON, with the variables still in it.
func (r *Resolved) Format(f fmt.State, _ rune) {
	text, err := json.Marshal(r)
	if err != nil { // of none of its types
		text = []byte(r.Alias)
	}
	_, _ = f.Write(text)
}
