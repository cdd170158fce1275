#include "Rows.h"

#include <new>

BbflowRows *bbflow_rows_new() { return new (std::nothrow) BbflowRows; }

uint64_t bbflow_rows_count(const BbflowRows *rows) { return rows->Rows.size(); }

const BbflowRow *bbflow_rows_data(const BbflowRows *rows) { return rows->Rows.data(); }

void bbflow_rows_free(BbflowRows *rows) { delete rows; }
