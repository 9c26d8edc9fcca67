package main

import "encoding/json"

// coverSchema is the schema of two tools. This file uses no library, and stays as it is.
var coverSchema = json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]}`)
