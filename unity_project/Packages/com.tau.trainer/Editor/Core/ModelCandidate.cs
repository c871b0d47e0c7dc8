using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;

namespace Tau.Trainer
{
    /// <summary>A model that a run wrote for a behavior.</summary>
    public sealed class ModelCandidate
    {
        /// <summary>A model with these properties.</summary>
        public ModelCandidate(string behavior, string path, long step, double? reward, bool final)
        {
            Behavior = behavior;
            Path = path;
            Step = step;
            Reward = reward;
            Final = final;
        }

        /// <summary>The behavior's name.</summary>
        public string Behavior { get; }

        /// <summary>The ONNX file.</summary>
        public string Path { get; }

        /// <summary>Decisions behind it.</summary>
        public long Step { get; }

        /// <summary>Its mean reward; null: unknown.</summary>
        public double? Reward { get; }

        /// <summary>Whether the trainer chose it at the end of the run.</summary>
        public bool Final { get; }

        /// <summary>Behavior, decisions and reward, in words.</summary>
        public string Description
        {
            get
            {
                CultureInfo plain = CultureInfo.InvariantCulture;
                string reward = Reward == null ? string.Empty : ", reward " + Reward.Value.ToString("0.000", plain);
                string end = Final ? ", chosen at the end" : string.Empty;
                return Behavior + ", decision " + Step.ToString("N0", plain) + reward + end;
            }
        }

        /// <summary>
        /// The best model of a behavior whose file exists; null if there is none. That is what the trainer chose at the
        /// end, else the checkpoint with the highest reward, and of equals the latest.
        /// </summary>
        public static ModelCandidate Best(IEnumerable<ModelCandidate> all, string behavior)
        {
            return all
                .Where(each => each.Behavior == behavior && File.Exists(each.Path))
                .OrderBy(each => each.Final)
                .ThenBy(each => each.Reward ?? double.NegativeInfinity)
                .ThenBy(each => each.Step)
                .LastOrDefault();
        }

        /// <summary>
        /// Copies the model into a folder and returns the new path. The name is the one that the trainer gave the
        /// behavior's files, which every system accepts; it does not change from checkpoint to checkpoint, so that
        /// references stay.
        /// </summary>
        /// <exception cref="TrainerException">It cannot be copied.</exception>
        public string CopyTo(string folder)
        {
            string own = Final
                ? System.IO.Path.GetFileNameWithoutExtension(Path)
                : System.IO.Path.GetFileName(System.IO.Path.GetDirectoryName(Path));
            string target = System.IO.Path.Combine(folder, own + ".onnx");
            Whole.Write(target, partial => File.Copy(Path, partial, true));
            return target;
        }
    }
}
