namespace Tau.Core
{
    /// <summary>What the policy should output for each answer.</summary>
    public static class TauTargets
    {
        /// <summary>
        /// Targets of the whole vocabulary, worked out once for each data set; safe for any thread, never write to
        /// them. `tau384`: the answers' embeddings. `tau3`: their three principal components in [-1, 1], fitted on the
        /// answers that occur in training, so that held-out rows shape nothing.
        /// </summary>
        /// <returns>[K][A].</returns>
        public static float[][] Of(TauDataset dataset, TauProfile profile)
        {
            if (profile.ActionSize == TauProfile.EmbeddingSize)
            {
                return dataset.AnswerVectors;
            }
            return dataset.SharedTargets(profile.ActionSize, () => Project(dataset, profile.ActionSize));
        }

        private static float[][] Project(TauDataset dataset, int components)
        {
            return TokenProjection.Fit(dataset.AnswerVectors, dataset.TrainingAnswers, components)
                .Apply(dataset.AnswerVectors);
        }
    }
}
