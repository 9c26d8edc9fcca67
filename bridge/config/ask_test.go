package config_test

import (
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/config"
)

func TestAskEnv(t *testing.T) {
	t.Setenv("INPUT_API_KEY_2", "sesame")
	for id, want := range map[string]string{"api-key.2": "sesame", "API_KEY_2": "sesame", "other": "as ever"} {
		if got, err := config.AskEnv(t.Context(), config.Input{ID: id, Default: "as ever"}); err != nil || got != want {
			t.Errorf("%s is %q, error %v, want %q", id, got, err, want)
		}
	}
	_, err := config.AskEnv(t.Context(), config.Input{ID: "api-kéy"})
	if err == nil || !strings.Contains(err.Error(), "INPUT_API_K_Y") {
		t.Errorf("error = %v, want the variable's name", err)
	}
}
