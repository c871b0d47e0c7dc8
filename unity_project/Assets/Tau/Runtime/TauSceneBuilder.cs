using System;
using UnityEngine;
using UnityEngine.SceneManagement;

namespace Tau
{
    /// <summary>
    /// Makes this project's scenes in code: in a running game, for an empty scene, and in edit mode, where you can save
    /// the result in a scene file. It adds missing objects and destroys nothing.
    /// </summary>
    public static class TauSceneBuilder
    {
        /// <summary>Default number of arenas in the scene `balance`, as in ML-Agents' 3DBall.</summary>
        public const int UsualArenas = 12;

        private const int ArenasInRow = 4;
        private const float ArenaWidth = 10f;
        private const float ArenaDepth = 12f;
        private const float ArenaHeight = -5f;
        private const float FirstRow = 18f;

        /// <summary>Builds a scene in the active one.</summary>
        /// <param name="kind">The kind of scene.</param>
        /// <param name="arenas">Number of platforms, for <see cref="SceneKind.Balance"/> only.</param>
        /// <returns>The scene's marker; an existing one of this kind is kept.</returns>
        public static TauScene Build(SceneKind kind, int arenas = UsualArenas)
        {
            Scene active = SceneManager.GetActiveScene();
            TauScene scene = SceneSearch.Find<TauScene>(active);
            if (scene == null || scene.Kind != kind)
            {
                scene = new GameObject(NameOf(kind)).AddComponent<TauScene>();
                scene.Become(kind);
            }
            AddView(active);
            Add<TauConsole>(scene.gameObject);
            Furnish(scene, kind, arenas);
            return scene;
        }

        /// <summary>Name of a scene, for its file and for its root object.</summary>
        public static string NameOf(SceneKind kind)
        {
            return kind == SceneKind.Tau ? "Tau" : "Tau " + kind;
        }

        private static void Furnish(TauScene scene, SceneKind kind, int arenas)
        {
            switch (kind)
            {
                case SceneKind.Tau:
                    Add<ParallelTrainerManager>(scene.gameObject);
                    break;
                case SceneKind.Balance:
                    AddArenas(scene.transform, arenas);
                    break;
                case SceneKind.Inference:
                    Add<TauAnswerer>(scene.gameObject);
                    break;
                default:
                    throw new ArgumentOutOfRangeException(nameof(kind), kind, "no scene of this kind");
            }
        }

        private static void AddArenas(Transform parent, int count)
        {
            if (parent.GetComponentInChildren<BalanceArena>(true) != null)
            {
                return;
            }
            for (var i = 0; i < count; i++)
            {
                int column = i % ArenasInRow;
                int row = i / ArenasInRow;
                var position = new Vector3(
                    (column - (ArenasInRow - 1) / 2f) * ArenaWidth, ArenaHeight, FirstRow + row * ArenaDepth);
                BalanceArena.Create(parent, "Arena " + i, position);
            }
        }

        /// <summary>Adds a camera and a light if the scene has none, placed as in Unity's default scene.</summary>
        private static void AddView(Scene scene)
        {
            if (SceneSearch.Find<Camera>(scene) == null)
            {
                var camera = new GameObject("Main Camera");
                camera.tag = "MainCamera";
                camera.transform.position = new Vector3(0f, 1f, -10f);
                camera.AddComponent<Camera>();
            }
            if (SceneSearch.Find<Light>(scene) == null)
            {
                var light = new GameObject("Directional Light");
                light.transform.rotation = Quaternion.Euler(50f, -30f, 0f);
                light.AddComponent<Light>().type = LightType.Directional;
            }
        }

        private static void Add<T>(GameObject host)
            where T : Component
        {
            if (host.GetComponent<T>() == null)
            {
                host.AddComponent<T>();
            }
        }
    }
}
