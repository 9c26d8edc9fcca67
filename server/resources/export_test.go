package resources

import "github.com/dovetail-go/dovetail/server/internal/filetree"

// Functions under test.
var (
	IsName         = filetree.IsName
	IsHidden       = filetree.IsHidden
	IsWindowsAlias = filetree.IsWindowsAlias
	URIOf          = filetree.URI
	TypeOf         = filetree.MediaType
	ResponseType   = responseType
	IsText         = filetree.IsText
	Types          = filetree.Types
	ParsePattern   = parsePattern
)

// Limits under test.
const (
	MaxDepth   = filetree.MaxDepth
	MaxElement = filetree.MaxElement
	MaxPattern = maxPattern
)

func (p pattern) Matches(name string) bool   { return p.matches(name) }
func (p pattern) LeadsBelow(dir string) bool { return p.leadsBelow(dir) }
