/* What a thread knows of others: the happens-before relation of a launch.
 *
 * Knowledge says, of each block, up to which barrier interval all of its accesses happened before, and of single threads
 * of that interval up to which clock. Full vector clocks (one number for each thread of the grid) would be as large as
 * the grid for each thread; but most know nothing of other blocks, and those that do know the same: so it is a tree over
 * blocks, of 16 branches a node, whose nodes never change and are shared. A union visits only what differs, and gives
 * one of the two where it adds nothing.
 */

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 10
/* The compiler's analyzer loses memory whose pointer is kept behind a pointer that it knows nothing of. */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

#include "order.h"

#include <stdlib.h>
#include <string.h>

enum { BRANCHES = 16, BRANCH_BITS = 4 };

struct Knowledge {
    u32 references;
    void *branches[BRANCHES]; /* of Knowledge; on the lowest level of Leaf */
};

typedef struct {
    u32 references;
    u32 interval; /* all accesses of the block before it */
    u32 count;
    ThreadClock clocks[]; /* of the interval itself, by thread */
} Leaf;

void open_pool(KnowledgePool *pool, u64 names) {
    pool->levels = 1;
    pool->free_nodes = NULL;
    while (pool->levels < 6 && names >> (BRANCH_BITS * pool->levels)) pool->levels++;
}

void close_pool(KnowledgePool *pool) {
    for (Knowledge *node = pool->free_nodes, *next; node; node = next) next = node->branches[0], free(node);
    pool->free_nodes = NULL;
}

/* NULL where there is no memory: what would be known then is not, and a report may be wrong; the launch has no memory to
   go on with anyway. */
static Knowledge *new_node(KnowledgePool *pool) {
    Knowledge *node = pool->free_nodes;
    if (node) pool->free_nodes = node->branches[0];
    else if (!(node = malloc(sizeof *node))) return NULL;
    memset(node, 0, sizeof *node);
    node->references = 1;
    return node;
}

static Leaf *new_leaf(u32 interval, u32 count) {
    Leaf *leaf = malloc(sizeof *leaf + count * sizeof(ThreadClock));
    if (leaf) leaf->references = 1, leaf->interval = interval, leaf->count = count;
    return leaf;
}

/* Nodes and leaves both begin with their references. */
static void *retain_branch(void *branch) {
    if (branch) ++*(u32 *)branch;
    return branch;
}

static void discard_branch(KnowledgePool *pool, void *branch, u32 level) {
    if (!branch || --*(u32 *)branch) return;
    if (!level) {
        free(branch);
        return;
    }
    Knowledge *node = branch;
    for (int i = 0; i < BRANCHES; i++) discard_branch(pool, node->branches[i], level - 1);
    node->branches[0] = pool->free_nodes;
    pool->free_nodes = node;
}

Knowledge *retain(Knowledge *knowledge) {
    return retain_branch(knowledge);
}

void discard(KnowledgePool *pool, Knowledge *knowledge) {
    discard_branch(pool, knowledge, pool->levels);
}

static int adds_nothing(const Leaf *leaf, const ThreadClock *merged, u32 count) {
    return leaf->count == count && (!count || !memcmp(leaf->clocks, merged, count * sizeof *merged));
}

static void *unite_leaves(Leaf *one, Leaf *other) {
    if (one->interval != other->interval) return retain_branch(one->interval > other->interval ? one : other);
    ThreadClock merged[1024];
    u32 i = 0, j = 0, count = 0;
    while (i < one->count || j < other->count) {
        if (j == other->count || (i < one->count && one->clocks[i].thread < other->clocks[j].thread))
            merged[count] = one->clocks[i++];
        else if (i == one->count || other->clocks[j].thread < one->clocks[i].thread) merged[count] = other->clocks[j++];
        else {
            merged[count] = one->clocks[i].clock > other->clocks[j].clock ? one->clocks[i] : other->clocks[j];
            i++, j++;
        }
        count++;
    }
    if (adds_nothing(one, merged, count)) return retain_branch(one);
    if (adds_nothing(other, merged, count)) return retain_branch(other);
    Leaf *leaf = new_leaf(one->interval, count);
    if (leaf) memcpy(leaf->clocks, merged, count * sizeof *merged);
    return leaf;
}

static void *unite_branches(KnowledgePool *pool, void *one, void *other, u32 level) {
    if (!one || one == other) return retain_branch(other);
    if (!other) return retain_branch(one);
    if (!level) return unite_leaves(one, other);
    const Knowledge *left = one, *right = other;
    Knowledge *node = new_node(pool);
    if (!node) return NULL;
    int is_left = 1, is_right = 1;
    for (int i = 0; i < BRANCHES; i++) {
        node->branches[i] = unite_branches(pool, left->branches[i], right->branches[i], level - 1);
        is_left &= node->branches[i] == left->branches[i];
        is_right &= node->branches[i] == right->branches[i];
    }
    if (!is_left && !is_right) return node;
    discard_branch(pool, node, level);
    return retain_branch(is_left ? one : other);
}

Knowledge *unite(KnowledgePool *pool, Knowledge *one, Knowledge *other) {
    return unite_branches(pool, one, other, pool->levels);
}

void learn(KnowledgePool *pool, Knowledge **into, Knowledge *other) {
    if (!other || *into == other) return;
    Knowledge *both = unite(pool, *into, other);
    discard(pool, *into);
    *into = both;
}

static u32 branch_of(u32 name, u32 level) {
    return name >> (BRANCH_BITS * (level - 1)) & (BRANCHES - 1);
}

Knowledge *make_knowledge(KnowledgePool *pool, u32 name, u32 interval, const ThreadClock *clocks, u32 count) {
    Leaf *leaf = new_leaf(interval, count);
    if (leaf && count) memcpy(leaf->clocks, clocks, count * sizeof *clocks);
    void *branch = leaf;
    for (u32 level = 1; level <= pool->levels && branch; level++) {
        Knowledge *node = new_node(pool);
        if (!node) return discard_branch(pool, branch, level - 1), NULL;
        node->branches[branch_of(name, level)] = branch;
        branch = node;
    }
    return branch;
}

static const Leaf *find_leaf(const KnowledgePool *pool, const Knowledge *knowledge, u32 name) {
    const void *branch = knowledge;
    for (u32 level = pool->levels; level && branch; level--)
        branch = ((const Knowledge *)branch)->branches[branch_of(name, level)];
    return branch;
}

int knows_of(const KnowledgePool *pool, const Knowledge *knowledge, u32 name) {
    return find_leaf(pool, knowledge, name) != NULL;
}

int knows(const KnowledgePool *pool, const Knowledge *knowledge, u64 stamp) {
    const Leaf *leaf = find_leaf(pool, knowledge, name_of(stamp));
    if (!leaf || interval_of(stamp) > leaf->interval) return 0;
    if (interval_of(stamp) < leaf->interval) return 1;
    u32 begin = 0, end = leaf->count, thread = thread_of(stamp);
    while (begin < end) {
        u32 middle = (begin + end) / 2;
        if (leaf->clocks[middle].thread < thread) begin = middle + 1;
        else end = middle;
    }
    return begin < leaf->count && leaf->clocks[begin].thread == thread && leaf->clocks[begin].clock > clock_of(stamp);
}
