package envd

// Regenerating needs protoc (Debian: protobuf-compiler) and, on PATH, the two plugins at the versions in go.mod:
//
//	go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
//	go install connectrpc.com/connect/cmd/protoc-gen-connect-go@v1.21.1
//
//go:generate protoc --go_out=. --go_opt=paths=source_relative --connect-go_out=. --connect-go_opt=paths=source_relative processpb/process.proto filesystempb/filesystem.proto
