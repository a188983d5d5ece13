// SPDX-License-Identifier: Apache-2.0
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <features.h>
#include <lmdb.h>
