"""Tests of data staging."""
