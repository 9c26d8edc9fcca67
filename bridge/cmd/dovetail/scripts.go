package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/dovetail-go/dovetail/bridge/code"
	"github.com/dovetail-go/dovetail/server"
)

// openScripts returns the provider of -scripts. Guards and observers of calls are in the source.
func (h *hub) openScripts(source server.Provider) (server.Provider, error) {
	var err error
	if h.engine, err = code.NewEngine(&code.EngineOptions{CacheDir: scriptCache()}); err != nil {
		return nil, err
	}
	return code.New(source, &code.Options{Engine: h.engine, Logger: h.logger, Store: h.store, Transpile: transpile})
}

// scriptCache returns the folder for the compiled interpreter, which only this user can write to, or "".
func scriptCache() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	folder := filepath.Join(cache, "dovetail", "scripts")
	if os.MkdirAll(folder, 0o700) != nil {
		return ""
	}
	return folder
}

// transpile returns JavaScript for TypeScript: the body of an async function.
func transpile(_ context.Context, source string) (string, error) {
	result := api.Transform("async function script() {"+source+"\n}", api.TransformOptions{
		Loader: api.LoaderTS, Target: api.ES2022, Sourcefile: "script.ts", LogLevel: api.LogLevelSilent,
	})
	if len(result.Errors) > 0 {
		failed := result.Errors[0]
		text := failed.Text
		if failed.Location != nil {
			text = failed.Location.LineText + ": " + text
		}
		return "", errors.New(text)
	}
	return string(result.Code) + "return script()", nil
}
