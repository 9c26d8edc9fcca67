//go:build !console

package main

import (
	"net/http"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/server"
)

func addConsole(*http.ServeMux, *server.Server, *bridge.Bridge, *pin.Lock) {}
