package main
var doctorCommand, genCommand, packCommand = &subcommand{}, &subcommand{}, &subcommand{}
