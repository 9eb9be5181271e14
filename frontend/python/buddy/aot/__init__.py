"""Ahead-of-time bundles: a model as a native library, a C++ header, weights and a manifest."""
