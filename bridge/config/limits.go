package config

import "time"

const (
	// MaxFile is how long a file may be, in bytes.
	MaxFile = 1 << 20
	// MaxServers is how many servers a file may have.
	MaxServers = 256
	// MaxAlias is how long the name of a server may be, in bytes.
	MaxAlias = 40
	// MaxValue is how long a text may be once its variables are replaced, in bytes;
	// Linux takes no longer argument.
	MaxValue = 128 << 10
	// MaxExpanded is how long all texts of a server may be together, in bytes.
	MaxExpanded = 1 << 20
	// DefaultInterval is how often [Watch] looks.
	DefaultInterval = time.Second
)

const (
	// maxInputs is how many inputs a file may declare.
	maxInputs = 256
	// maxEnvFile is how long a file of variables may be, in bytes.
	maxEnvFile = 256 << 10
	// maxReports is how many errors, and how many warnings, are told of one file.
	maxReports = 64
	// shortTimeout is up to where a timeout without a unit looks like one in seconds.
	shortTimeout = time.Second
	// unsettled is how recently a file may have been changed for its time to prove
	// nothing: clocks of file systems are coarse.
	unsettled = 2 * time.Second
)
