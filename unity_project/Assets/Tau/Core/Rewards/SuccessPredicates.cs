namespace Tau.Core
{
    /// <summary>When a step counts as a success: over its reward, its episode's outcome, or a distance.</summary>
    public static class SuccessPredicates
    {
        /// <summary>The reward of this step is greater than 0.</summary>
        public static bool Positive(double reward)
        {
            return reward > 0.0;
        }

        /// <summary>The reward of this step is at least <paramref name="limit"/>.</summary>
        public static bool Threshold(double reward, double limit)
        {
            return reward >= limit;
        }

        /// <summary>
        /// The episode has ended with this step and its return, this step included, is above
        /// <paramref name="limit"/>. Means nothing before the end.
        /// </summary>
        public static bool Outcome(bool done, double episodeReturn, double limit)
        {
            return done && episodeReturn > limit;
        }

        /// <summary>The absolute error is at most <paramref name="limit"/>.</summary>
        public static bool Distance(double error, double limit)
        {
            return error <= limit;
        }
    }
}
