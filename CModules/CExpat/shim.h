// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <features.h>
#include <expat.h>
