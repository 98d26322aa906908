.DEFAULT_GOAL := help
SHELL := /bin/bash
tool := go tool -modfile=tools/go.mod

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build every package, without cgo
	CGO_ENABLED=0 go build ./...

.PHONY: test
test: ## Run every test on both databases under the race detector
	scripts/test

.PHONY: quick
quick: ## Run the tests on SQLite alone, without the race detector
	go test ./...

.PHONY: lint
lint: ## Run the linters
	$(tool) golangci-lint run ./...

.PHONY: fmt
fmt: ## Format the code and sort the imports
	$(tool) golangci-lint fmt ./...

.PHONY: vuln
vuln: ## Look the dependencies up in Go's vulnerability database
	$(tool) govulncheck ./...

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (10s)
	scripts/fuzz $(or $(FUZZTIME),10s)

.PHONY: postgres
postgres: ## Run a PostgreSQL server to throw away, until Ctrl-C
	@scripts/postgres

.PHONY: ci
ci: ## Run all that a change has to pass
	.ci/run
